--@use clock
-- Moves a member of an index to another time: the index only says when to try or to poll it next.
-- KEYS     index
-- ARGV     member, delay_ms
-- Returns  {status}: postponed | gone
local moved = redis.call('ZADD', index, 'XX', 'CH', now_ms + plan.delay_ms, plan.member)
return {moved == 1 and 'postponed' or 'gone'}
