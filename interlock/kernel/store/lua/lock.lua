-- Takes a lock for some time, goes on with it, or frees it: one holder has it at a time.
-- KEYS     lock
-- ARGV     holder, period_ms
-- Returns  {status, holder}: taken | freed | held, by another holder
-- A period of 0 frees it.
local found = redis.call('GET', lock)
if found and found ~= plan.holder then
  return {'held', found}
end
if plan.period_ms > 0 then
  redis.call('SET', lock, plan.holder, 'PX', plan.period_ms)
  return {'taken', plan.holder}
end
redis.call('DEL', lock)
return {'freed', plan.holder}
