--@use slots
-- Takes one of a limited number of slots, or enters the queue for it. A repeat keeps the slot, or
-- the place in the queue, and returns the same holders to wake. Slots of effects are checked by a
-- sweep, and one that was offered is free for the next who comes, once nobody has come for it in
-- time.
-- KEYS     holders, queue, reports, [checked slots]
-- ARGV     id, limit (0: none), call id, score in the queue, [name, ms until the sweep checks them
--          while somebody waits for a slot, and else, ms for which an offer is good]
-- Returns  {status, id, ...}, the ids of the holders to wake; status: held | queued
local holders = KEYS[1]
local queue = KEYS[2]
local reports = KEYS[3]
local id = ARGV[1]
local limit = tonumber(ARGV[2])
local call_id = ARGV[3]
local score = ARGV[4]
local checked = KEYS[4]

if not redis.call('ZSCORE', holders, id) then
  redis.call('ZADD', queue, 'NX', score, id)
end
offer_slots(holders, queue, limit)
local held = redis.call('ZSCORE', holders, id)
if checked and not held and pass_on_offer(holders, reports, tonumber(ARGV[8])) then
  redis.call('ZREM', queue, id)
  held = true
end
if held then
  redis.call('ZADD', holders, now_ms, id)
  redis.call('HSET', reports, id, TAKEN .. call_id)
end
if checked then
  local waits = redis.call('ZCARD', queue) > 0
  redis.call('ZADD', checked, 'LT', now_ms + (waits and ARGV[6] or ARGV[7]), ARGV[5])
end
return {held and 'held' or 'queued', unpack(holders_to_wake(holders, reports, call_id))}
