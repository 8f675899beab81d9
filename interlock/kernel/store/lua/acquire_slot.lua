--@use slots
-- Takes one of a limited number of slots, or enters the queue for it. A repeat keeps the slot, or
-- the place in the queue, and returns the same holders to wake. Slots of effects are checked by a
-- sweep, and one that was offered is free for the next who comes, once nobody has come for it in
-- time.
-- KEYS     holders, queue, reports, checked_slots...
-- ARGV     id, limit, call_id, score, name?, check_ms?, check_seldom_ms?, offer_ms?
-- Returns  {status, id, ...}, the ids of the holders to wake; status: held | queued
-- A `limit` of 0 is none; `score` is the place in the queue. A sweep checks the slots of effects by
-- `name`, after `check_ms` while somebody waits for one, else after `check_seldom_ms`; an offer is
-- good for `offer_ms`.
local checked = checked_slots[1]

if not redis.call('ZSCORE', holders, plan.id) then
  redis.call('ZADD', queue, 'NX', plan.score, plan.id)
end
offer_slots(holders, queue, plan.limit)
local held = redis.call('ZSCORE', holders, plan.id)
if checked and not held and pass_on_offer(holders, reports, plan.offer_ms) then
  redis.call('ZREM', queue, plan.id)
  held = true
end
if held then
  redis.call('ZADD', holders, now_ms, plan.id)
  redis.call('HSET', reports, plan.id, TAKEN .. plan.call_id)
end
if checked then
  local delay_ms = redis.call('ZCARD', queue) > 0 and plan.check_ms or plan.check_seldom_ms
  redis.call('ZADD', checked, 'LT', now_ms + delay_ms, plan.name)
end
return {held and 'held' or 'queued', unpack(holders_to_wake(holders, reports, plan.call_id))}
