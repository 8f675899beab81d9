-- Reads a record, its counters, the outcome of an op-id, and the facts that a decision needs.
-- KEYS     record, counters, ops, then the records that the decision reads
-- ARGV     op-id, or ''
-- Returns  {status, outcome of the op-id or '', {record}, {counters}, {version, state and data of
--          each record read}}; status: loaded | missing
local record = KEYS[1]
local counters = KEYS[2]
local ops = KEYS[3]
local op_id = ARGV[1]

local fields = redis.call('HGETALL', record)
if #fields == 0 then
  return {'missing', '', {}, {}, {}}
end
local outcome = op_id ~= '' and redis.call('HGET', ops, op_id) or ''
local facts = {}
for n = 4, #KEYS do
  facts[n - 3] = redis.call('HMGET', KEYS[n], 'version', 'state', 'data')
end
return {'loaded', outcome, fields, redis.call('HGETALL', counters), facts}
