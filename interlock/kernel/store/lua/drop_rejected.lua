-- Drops a rejected message that somebody has dealt with. The counts stay.
-- KEYS     rejected, bytes
-- ARGV     id
-- Returns  {'dropped' | 'missing'}
local found = redis.call('XRANGE', rejected, plan.id, plan.id)[1]
if not found then
  return {'missing'}
end
redis.call('XDEL', rejected, plan.id)
redis.call('DECRBY', bytes, found[2][10])
return {'dropped'}
