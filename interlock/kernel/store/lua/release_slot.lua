--@use slots
-- Gives a slot or a place in the queue back, and offers the slots that are free. A repeat returns
-- the same holders to wake.
-- KEYS     holders, queue, reports
-- ARGV     id, limit, call_id, taken_by
-- Returns  {status, id, ...}, the ids of the holders to wake; status: released
-- An `id` of '' only offers what is free; a `limit` of 0 is none. `taken_by` is the id of the call
-- by which the slot was taken, or 'offered': it is given back only if that is still so; or 'any'.
local score = tonumber(redis.call('ZSCORE', holders, plan.id) or 1)
local is_offered = plan.taken_by == 'offered' and score <= 0
local taken = TAKEN .. plan.taken_by
if plan.taken_by == 'any' or is_offered or redis.call('HGET', reports, plan.id) == taken then
  redis.call('ZREM', holders, plan.id)
  redis.call('ZREM', queue, plan.id)
  redis.call('HDEL', reports, plan.id)
end
offer_slots(holders, queue, plan.limit)
return {'released', unpack(holders_to_wake(holders, reports, plan.call_id))}
