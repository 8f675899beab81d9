--@use clock
-- Notes that a run of a sweep has ended, and counts what it did.
-- KEYS     ended sweeps, results of sweeps
-- ARGV     sweep, {status: how many items had it}
-- Returns  {'counted'}
local ended = KEYS[1]
local results = KEYS[2]
local sweep = ARGV[1]
local counts = cjson.decode(ARGV[2])

redis.call('HSET', ended, sweep, now)
for status, count in pairs(counts) do
  redis.call('HINCRBY', results, sweep .. ':' .. status, count)
end
return {'counted'}
