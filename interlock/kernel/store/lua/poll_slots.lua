--@use clock
-- Polls slots of effects, of one name, and sets when they are polled next in the same step, so that
-- two sweeps at a time do not both check them. Those that nobody has or waits for are forgotten.
-- KEYS     holders, queue, checked slots
-- ARGV     name, ms until the next poll while somebody waits for a slot, and else
-- Returns  {now, holder, score, holder, score, ...}, or {} where another sweep polls them
local holders = KEYS[1]
local queue = KEYS[2]
local checked = KEYS[3]
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
return {tostring(now_ms), unpack(held)}
