-- What entitles a commit. A version test alone protects neither against a renewal nor against a record that left and came back.
local function warranted(record, warrant)
  local kind = warrant[1]
  if kind == 'none' or kind == 'party' then return true end
  if kind == 'person' then return redis.call('HGET', record, 'entered') == warrant[2] end
  if kind == 'due' then
    local timer = redis.call('HGET', record, 't:' .. warrant[2])
    if not timer then return false end
    local due_at, born, left = string.match(timer, '^(%S+) (%S+) (%S+)')
    return due_at == warrant[3] and born == warrant[4] and left == '-' and tonumber(due_at) <= now
  end
  local entry = entry_read(record, warrant[2])
  if not entry then return false end
  if kind == 'token' then return entry.token == warrant[3] and (entry.state == 'leased' or entry.state == 'lapsed' or entry.state == 'quarantined') end
  if kind == 'lapsed' then return entry.state == 'lapsed' and entry.token == warrant[3] end
  if kind == 'exhausted' then
    return (entry.state == 'owed' or entry.state == 'lapsed') and entry.attempts >= entry.attempts_max and entry.attempts == tonumber(warrant[3])
  end
  return false
end
