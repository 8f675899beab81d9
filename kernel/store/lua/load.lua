-- Reads a record with its counters, the outcome already recorded for an op-id, and the facts that a row declares.
-- KEYS  record, counters, ops, then the records that are read
-- ARGV  op-id (may be empty)
-- Returns {word, op outcome, {record}, {counters}, {fields of each record read}}
local record = redis.call('HGETALL', KEYS[1])
if #record == 0 then return {'missing', '', {}, {}, {}} end
local known = ARGV[1] ~= '' and redis.call('HGET', KEYS[3], ARGV[1]) or ''
local facts = {}
for at = 4, #KEYS do facts[at - 3] = redis.call('HMGET', KEYS[at], 'version', 'state', 'data') end
return {'loaded', known or '', record, redis.call('HGETALL', KEYS[2]), facts}
