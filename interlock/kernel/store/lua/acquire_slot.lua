--@use slots
-- Takes one of a limited number of slots, or enters the queue for it. A repeat keeps the slot, or
-- the place in the queue, and returns the same holders to wake.
-- KEYS     holders, queue, reports
-- ARGV     id, limit (0: none), call id, score in the queue
-- Returns  {status, id, ...}, the ids of the holders to wake; status: held | queued
local holders = KEYS[1]
local queue = KEYS[2]
local reports = KEYS[3]
local id = ARGV[1]
local limit = tonumber(ARGV[2])
local call_id = ARGV[3]
local score = ARGV[4]

if not redis.call('ZSCORE', holders, id) then
  redis.call('ZADD', queue, 'NX', score, id)
end
offer_slots(holders, queue, limit)
local held = redis.call('ZSCORE', holders, id)
if held then
  redis.call('ZADD', holders, '1', id)
  redis.call('HDEL', reports, id)
end
return {held and 'held' or 'queued', unpack(holders_to_wake(holders, reports, call_id))}
