--@use clock
-- Revokes an access token for good. What is kept of the first revocation stays.
-- KEYS     tokens, revoked
-- ARGV     id, by
-- Returns  {'revoked' | 'unknown'}
if redis.call('HEXISTS', tokens, plan.id) == 0 then
  return {'unknown'}
end
redis.call('HSETNX', revoked, plan.id, now_ms .. ' ' .. plan.by)
return {'revoked'}
