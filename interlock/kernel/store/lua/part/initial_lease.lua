--@use entry grant lease
-- Leases an effect that this script created, before another process can claim it.
-- initial = {nonce, holder, lease_ms}
local function lease_at_once(record, log, effects, id, suffix, initial)
  local entry = read_entry(record, suffix)
  grant(record, log, suffix, entry, initial.nonce, initial.holder)
  lease(record, effects, id, suffix, entry, initial.holder, initial.lease_ms)
end
