--@use token effect_note fields metrics
-- Leases an effect that this script creates, before another process can claim it: what its entry
-- has then is put into `owner.fields`. It is counted as a claim that did not wait. Returns the
-- token.
-- plan = {nonce, leased_at, lease_effect, lease_entry: format of the entry, lease_nonce,
--         lease_holder, lease_ms, lease_grace_ms, ...}
local function lease_at_once(owner, plan, version, log, last_token)
  local number = number_after(last_token)
  local token = number .. '-' .. plan.lease_nonce
  local lease_until = string.format('%d', now_ms + plan.lease_ms)
  local kill_by = string.format('%d', lease_until + plan.lease_grace_ms)
  local suffix = version .. '.' .. (plan.leased_at - 1) .. ':' .. plan.nonce
  put(owner.fields, 'last_token', number)
  put(owner.fields, 'e:' .. suffix, string.format(plan.lease_entry, token, lease_until, kill_by))
  redis.call('ZADD', owner.effects, lease_until, owner.id .. ':' .. suffix)
  write_claim_note(log, version, suffix, token, 1, plan.lease_holder)
  count(owner.metrics, 'attempt', plan.lease_effect, 'first')
  observe(owner.metrics, 0, 'lag', plan.lease_effect)
  return token
end
