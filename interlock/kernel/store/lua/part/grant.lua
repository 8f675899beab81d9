--@use token effect_note
-- Begins an attempt at an effect by a new holder, and notes it in the log.
local function grant(record, log, suffix, entry, nonce, holder)
  local version = renew_token(record, entry, nonce)
  entry.attempts = entry.attempts + 1
  entry.begun = 1
  entry.acknowledged = 0
  if entry.once == 1 then
    entry.no_restart = 1
  end
  write_claim_note(log, version, suffix, entry.token, entry.attempts, holder)
end
