-- Drops a rejected message that somebody has dealt with. The counts stay.
-- KEYS     rejected messages, bytes of those that are kept
-- ARGV     id of the message
-- Returns  {'dropped' | 'missing'}
local rejected = KEYS[1]
local bytes = KEYS[2]
local id = ARGV[1]

local found = redis.call('XRANGE', rejected, id, id)[1]
if not found then
  return {'missing'}
end
redis.call('XDEL', rejected, id)
redis.call('DECRBY', bytes, found[2][10])
return {'dropped'}
