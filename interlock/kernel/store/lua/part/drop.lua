--@use exclusive budget
-- Ends an effect at once. `lost`: its last holder, if it had one, did not report what it spent.
-- owner = {id, record, effects, chain, ...}: the record whose effect it is
local function drop(owner, suffix, entry, lost)
  if lost then
    book_residue(owner.record, owner.chain, entry)
  else
    release_reservation(owner.chain, entry)
  end
  redis.call('HDEL', owner.record, 'e:' .. suffix, 's:' .. suffix)
  redis.call('ZREM', owner.effects, owner.id .. ':' .. suffix)
  wake_siblings(owner.record, owner.effects, owner.id, entry)
end
