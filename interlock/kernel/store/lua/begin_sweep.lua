--@use clock
-- Lets one run of a sweep begin in each half period, and notes when. Messages of a sweep can wait
-- in their queue, or come from several beats; one run does the work of all of them.
-- KEYS     sweeps
-- ARGV     sweep, period_ms
-- Returns  {status}: begun | just_run
local begun_ms = tonumber(redis.call('HGET', sweeps, plan.sweep) or 0)
-- A clock that was set back must not stop the sweep.
if begun_ms <= now_ms and now_ms - begun_ms < plan.period_ms / 2 then
  return {'just_run'}
end
redis.call('HSET', sweeps, plan.sweep, now)
return {'begun'}
