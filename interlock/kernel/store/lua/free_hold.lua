--@use hold_queue
-- Frees a name that a family holds, where its holder does not exist or has ended.
-- KEYS     holds, record, hold_queue, effects
-- ARGV     name, holder
-- Returns  {status}: freed | moved, where the holder does not hold the name | lives
-- `record` is the holder's.
if redis.call('HGET', holds, plan.name) ~= plan.holder then
  return {'moved'}
end
local state, ended = unpack(redis.call('HMGET', record, 'state', 'ended'))
if state and ended ~= '1' then
  return {'lives'}
end
redis.call('HDEL', holds, plan.name)
offer_name(hold_queue, effects, plan.name)
return {'freed'}
