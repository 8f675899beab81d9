--@use hold_queue
-- Frees a name that a family holds, where its holder does not exist or has ended.
-- KEYS     holds, record of the holder, hold queue, effects
-- ARGV     name, holder
-- Returns  {status}: freed | moved, where the holder does not hold the name | lives
local holds = KEYS[1]
local record = KEYS[2]
local hold_queue = KEYS[3]
local effects = KEYS[4]
local name = ARGV[1]
local holder = ARGV[2]

if redis.call('HGET', holds, name) ~= holder then
  return {'moved'}
end
local state, ended = unpack(redis.call('HMGET', record, 'state', 'ended'))
if state and ended ~= '1' then
  return {'lives'}
end
redis.call('HDEL', holds, name)
offer_name(hold_queue, effects, name)
return {'freed'}
