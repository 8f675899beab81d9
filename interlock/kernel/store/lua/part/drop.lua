--@use exclusive budget
-- Ends an effect at once. `lost`: its last holder, if it had one, did not report what it spent.
-- owner = {id, record, effects, chain, ...}: the record whose effect it is
local function drop(owner, suffix, entry, lost)
  release_reservation(owner.chain, entry, lost)
  redis.call('HDEL', owner.record, 'e:' .. suffix)
  redis.call('ZREM', owner.effects, owner.id .. ':' .. suffix)
  wake_siblings(owner.record, owner.effects, owner.id, entry)
end
