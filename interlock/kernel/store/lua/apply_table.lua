--@use clock
-- Makes a table the one by which the workers of a deployment work, if the one that the caller has
-- compared it with still is. Which one it replaces is kept.
-- KEYS     applied, replaced
-- ARGV     machine, digest, expected, by
-- Returns  {'applied' | 'other'}
-- `expected` is the digest that was compared, '' where none was applied.
local found = redis.call('HGET', applied, plan.machine)
local now_applied = found and string.match(found, '^%S+') or ''
if now_applied ~= plan.expected then
  return {'other'}
end
if now_applied ~= '' and now_applied ~= plan.digest then
  redis.call('HSET', replaced, plan.machine, now_applied)
end
redis.call('HSET', applied, plan.machine, plan.digest .. ' ' .. now .. ' ' .. plan.by)
return {'applied'}
