--@use slots
-- Polls slots of effects, of one name, and sets when they are polled next in the same step, so that
-- two sweeps at a time do not both check them. Those that nobody has or waits for are forgotten.
-- KEYS     holders, queue, reports, checked_slots
-- ARGV     name, check_ms, check_seldom_ms
-- Returns  {now, holder, score, the id of the call by which it took its slot or '', ...}, three
--          values a holder after the first, or {} where another sweep polls them
-- They are polled next after `check_ms` while somebody waits for a slot, else after
-- `check_seldom_ms`.
local due_at = redis.call('ZSCORE', checked_slots, plan.name)
if not due_at or tonumber(due_at) > now_ms then
  return {}
end
local held = redis.call('ZRANGE', holders, 0, -1, 'WITHSCORES')
local delay_ms = redis.call('ZCARD', queue) > 0 and plan.check_ms or plan.check_seldom_ms
if #held == 0 then -- so nobody waits
  redis.call('ZREM', checked_slots, plan.name)
else
  redis.call('ZADD', checked_slots, now_ms + delay_ms, plan.name)
end
local answer = {tostring(now_ms)}
for n = 1, #held, 2 do
  local report = redis.call('HGET', reports, held[n]) or ''
  local taken_by = string.match(report, '^' .. TAKEN .. '(.*)$') or ''
  answer[#answer + 1] = held[n]
  answer[#answer + 1] = held[n + 1]
  answer[#answer + 1] = taken_by
end
return answer
