-- Reads a record, its counters, the outcome of an op-id, and the facts that a decision needs.
-- KEYS     record, counters, ops, facts...
-- ARGV     op_id
-- Returns  {status, outcome of the op-id or '', {record}, {counters}, {version, state and data of
--          each record read}}; status: loaded | missing
-- `facts` are the records that the decision reads.
local fields = redis.call('HGETALL', record)
if #fields == 0 then
  return {'missing', '', {}, {}, {}}
end
local outcome = plan.op_id ~= '' and redis.call('HGET', ops, plan.op_id) or ''
local read = {}
for n, fact in ipairs(facts) do
  read[n] = redis.call('HMGET', fact, 'version', 'state', 'data')
end
return {'loaded', outcome, fields, redis.call('HGETALL', counters), read}
