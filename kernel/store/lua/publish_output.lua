--@use clock
-- Publishes the newest output of an agent in the place of what was published before. Without
-- fields, says that the caller has none, unless another worker of the computer has published it.
-- KEYS     output
-- ARGV     ms until it is dropped, then {field, value, ...}
-- Returns  {'published'}
local output = KEYS[1]
local kept_ms = tonumber(ARGV[1])

if ARGV[2] or redis.call('HEXISTS', output, 'end') == 0 then
  redis.call('HSET', output, 'at_ms', now_ms, unpack(ARGV, 2))
  redis.call('PEXPIRE', output, kept_ms)
end
return {'published'}
