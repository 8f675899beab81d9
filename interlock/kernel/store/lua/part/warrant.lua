--@use clock entry timer
-- Tells whether a warrant entitles to a commit or a note; of a token it also returns the entry of
-- its effect. The version of the record alone protects neither against a renewed lease nor against
-- a record that left a state and came back to it.
-- warrant = {kind, ...}: none | component, name | person, entered | due, timer, due at, version
--           | token, suffix, token | lapsed, suffix, token | exhausted, suffix, attempts
local function is_warranted(record, warrant)
  local kind, subject, proof, version = unpack(warrant)
  if kind == 'none' or kind == 'component' then
    return true
  end
  if kind == 'person' then
    return redis.call('HGET', record, 'entered') == subject
  end
  if kind == 'due' then
    local due_at, set_at_version, left = read_timer(record, subject)
    local same = due_at == proof and set_at_version == version
    return same and left == '-' and tonumber(due_at) <= now_ms
  end
  local entry = read_entry(record, subject)
  if not entry then
    return false
  end
  local state = entry.state
  if kind == 'token' then
    local live = state == 'leased' or state == 'lapsed' or state == 'quarantined'
    return live and entry.token == proof, entry
  end
  if kind == 'lapsed' then
    return state == 'lapsed' and entry.token == proof
  end
  if kind == 'exhausted' then
    local unheld = state == 'owed' or state == 'lapsed'
    local exhausted = entry.attempts >= entry.attempts_max
    return unheld and exhausted and entry.attempts == tonumber(proof)
  end
  return false
end
