--@use slots
-- Polls slots of effects, of one name, and sets when they are polled next in the same step, so that
-- two sweeps at a time do not both check them. Those that nobody has or waits for are forgotten.
-- KEYS     holders, queue, reports, checked slots
-- ARGV     name, ms until the next poll while somebody waits for a slot, and else
-- Returns  {now, holder, score, the id of the call by which it took its slot or '', ...}, three
--          values a holder after the first, or {} where another sweep polls them
local holders = KEYS[1]
local queue = KEYS[2]
local reports = KEYS[3]
local checked = KEYS[4]
local name = ARGV[1]

local due_at = redis.call('ZSCORE', checked, name)
if not due_at or tonumber(due_at) > now_ms then
  return {}
end
local held = redis.call('ZRANGE', holders, 0, -1, 'WITHSCORES')
local waits = redis.call('ZCARD', queue) > 0
if #held == 0 then -- so nobody waits
  redis.call('ZREM', checked, name)
else
  redis.call('ZADD', checked, now_ms + (waits and ARGV[2] or ARGV[3]), name)
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
