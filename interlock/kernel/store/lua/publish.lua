--@use clock
-- Publishes what a computer is asked for, in the place of what was published before. Without
-- fields, says that the caller has none, unless another worker of the computer has published it.
-- KEYS     publication
-- ARGV     ms until it is dropped, then {field, value, ...}
-- Returns  {'published'}
local publication = KEYS[1]
local kept_ms = tonumber(ARGV[1])

if ARGV[2] or redis.call('HLEN', publication) <= 1 then
  redis.call('HSET', publication, 'at_ms', now, unpack(ARGV, 2))
  redis.call('PEXPIRE', publication, kept_ms)
end
return {'published'}
