--@use clock
-- Keeps a session of a browser, and forgets those that have expired.
-- KEYS     sessions
-- ARGV     digest, lifetime_ms, token, token_digest
-- Returns  {'kept'}
-- `digest` is that of the session's secret, `token_digest` that of the secret of a token.
local token = plan.token .. ' ' .. plan.token_digest

local all = redis.call('HGETALL', sessions)
for i = 1, #all, 2 do
  local expires = string.match(all[i + 1], '^(%d+) ')
  if expires and tonumber(expires) <= now_ms then
    redis.call('HDEL', sessions, all[i])
  end
end
redis.call('HSET', sessions, plan.digest, now_ms + plan.lifetime_ms .. ' ' .. token)
return {'kept'}
