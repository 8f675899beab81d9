--@use slots
-- Gives a slot or a place in the queue back, and offers the slots that are free. A
-- repeat returns the same holders to wake.
-- KEYS     holders, queue, reports
-- ARGV     id ('': only offer what is free), limit (0: none), call id, [the id of the call by which
--          the slot was taken, or 'offered': it is given back only if that is still so]
-- Returns  {status, id, ...}, the ids of the holders to wake; status: released
local holders = KEYS[1]
local queue = KEYS[2]
local reports = KEYS[3]
local id = ARGV[1]
local limit = tonumber(ARGV[2])
local call_id = ARGV[3]
local taken_by = ARGV[4]

local score = tonumber(redis.call('ZSCORE', holders, id) or 1)
local is_offered = taken_by == 'offered' and score <= 0
if not taken_by or is_offered or redis.call('HGET', reports, id) == TAKEN .. taken_by then
  redis.call('ZREM', holders, id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', reports, id)
end
offer_slots(holders, queue, limit)
return {'released', unpack(holders_to_wake(holders, reports, call_id))}
