-- Counts what a run of a sweep did.
-- KEYS     results of sweeps
-- ARGV     sweep, {status: how many items had it}
-- Returns  {'counted'}
local results = KEYS[1]
local sweep = ARGV[1]
local counts = cjson.decode(ARGV[2])

for status, count in pairs(counts) do
  redis.call('HINCRBY', results, sweep .. ':' .. status, count)
end
return {'counted'}
