--@use clock
-- Finds the access token with this secret that is neither revoked nor expired. Notes its use, at
-- most once in a period.
-- KEYS     tokens, revoked, used
-- ARGV     id, digest, period_ms
-- Returns  {'unknown' | 'revoked' | 'expired' | 'valid', the token as it is kept, or ''}
-- `digest` is that of the secret that a caller gave.
local kept = redis.call('HGET', tokens, plan.id)
if not kept then
  return {'unknown', ''}
end
local expires, kept_digest = string.match(kept, '^%d+ (%d+) (%x+) ')
if kept_digest ~= plan.digest then
  return {'unknown', ''}
end
local expires_ms = tonumber(expires)
if redis.call('HEXISTS', revoked, plan.id) == 1 then
  return {'revoked', kept}
end
if expires_ms > 0 and expires_ms <= now_ms then
  return {'expired', kept}
end
local used_ms = tonumber(redis.call('HGET', used, plan.id) or '') or 0
if now_ms - used_ms >= plan.period_ms then
  redis.call('HSET', used, plan.id, now)
end
return {'valid', kept}
