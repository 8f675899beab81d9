--@use clock
-- Keeps a session of a browser, and forgets those that have expired.
-- KEYS     sessions
-- ARGV     digest of its secret, its lifetime in ms, id of a token, digest of the token's secret
-- Returns  {'kept'}
local sessions = KEYS[1]
local digest = ARGV[1]
local lifetime_ms = tonumber(ARGV[2])
local token = ARGV[3] .. ' ' .. ARGV[4]

local all = redis.call('HGETALL', sessions)
for i = 1, #all, 2 do
  local expires = string.match(all[i + 1], '^(%d+) ')
  if expires and tonumber(expires) <= now_ms then
    redis.call('HDEL', sessions, all[i])
  end
end
redis.call('HSET', sessions, digest, now_ms + lifetime_ms .. ' ' .. token)
return {'kept'}
