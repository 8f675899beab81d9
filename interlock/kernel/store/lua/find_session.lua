--@use clock
-- Finds the session with this secret that has not expired, and ends it if that is asked for.
-- KEYS     sessions, count of those that were ended
-- ARGV     digest of the secret that a browser gave, 'keep' | 'end'
-- Returns  {'unknown' | 'valid', what the session is of: id and digest of a token, or ''}
local sessions = KEYS[1]
local ended = KEYS[2]
local digest = ARGV[1]
local purpose = ARGV[2]

local kept = redis.call('HGET', sessions, digest)
if not kept then
  return {'unknown', ''}
end
local expires, token = string.match(kept, '^(%d+) (%S+ %x+)$')
if not expires or tonumber(expires) <= now_ms then
  return {'unknown', ''}
end
if purpose == 'end' then
  redis.call('HDEL', sessions, digest)
  redis.call('HINCRBY', ended, 'count', 1)
end
return {'valid', token}
