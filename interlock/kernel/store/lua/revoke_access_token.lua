--@use clock
-- Revokes an access token for good. What is kept of the first revocation stays.
-- KEYS     access tokens, revocations
-- ARGV     id, who revokes it
-- Returns  {'revoked' | 'unknown'}
local tokens = KEYS[1]
local revoked = KEYS[2]
local id = ARGV[1]
local by = ARGV[2]

if redis.call('HEXISTS', tokens, id) == 0 then
  return {'unknown'}
end
redis.call('HSETNX', revoked, id, now_ms .. ' ' .. by)
return {'revoked'}
