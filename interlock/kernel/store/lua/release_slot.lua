--@use slots
-- Gives a slot or a place in the queue back, and offers the slots that are free. A
-- repeat returns the same holders to wake.
-- KEYS     holders, queue, reports
-- ARGV     id ('': only offer what is free), limit (0: none), call id, ['offered' or the stamp of
--          the slot: it is given back only while it is offered, or has this stamp]
-- Returns  {status, id, ...}, the ids of the holders to wake; status: released
local holders = KEYS[1]
local queue = KEYS[2]
local reports = KEYS[3]
local id = ARGV[1]
local limit = tonumber(ARGV[2])
local call_id = ARGV[3]
local stamp = ARGV[4]

local held = stamp and redis.call('ZSCORE', holders, id) -- both nil: in any case
if held == stamp or held and stamp == 'offered' and tonumber(held) <= 0 then
  redis.call('ZREM', holders, id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', reports, id)
end
offer_slots(holders, queue, limit)
return {'released', unpack(holders_to_wake(holders, reports, call_id))}
