--@use slots
-- Gives a slot or a place in the queue back, and offers the slots that are free.
-- KEYS     holders, queue
-- ARGV     id ('': only offer what is free), limit (0: none)
-- Returns  {status, id, ...}, the ids of the holders to wake; status: released
local holders = KEYS[1]
local queue = KEYS[2]
local id = ARGV[1]
local limit = tonumber(ARGV[2])

if id ~= '' then
  redis.call('ZREM', holders, id)
  redis.call('ZREM', queue, id)
end
offer_slots(holders, queue, limit)
return {'released', unpack(holders_to_wake(holders))}
