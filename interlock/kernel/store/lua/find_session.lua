--@use clock
-- Finds the session with this secret that has not expired, and ends it if that is asked for.
-- KEYS     sessions, ended
-- ARGV     digest, purpose
-- Returns  {'unknown' | 'valid', what the session is of: id and digest of a token, or ''}
-- `digest` is that of the secret that a browser gave; purpose: keep | end.
local kept = redis.call('HGET', sessions, plan.digest)
if not kept then
  return {'unknown', ''}
end
local expires, token = string.match(kept, '^(%d+) (%S+ %x+)$')
if not expires or tonumber(expires) <= now_ms then
  return {'unknown', ''}
end
if plan.purpose == 'end' then
  redis.call('HDEL', sessions, plan.digest)
  redis.call('HINCRBY', ended, 'count', 1)
end
return {'valid', token}
