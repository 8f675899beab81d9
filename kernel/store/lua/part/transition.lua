-- What a row does to the effects and timers of the state that it leaves, carries on or keeps. at: see revoke.
-- Ends what the row ends, the outcome's own entry first of all. Returns whether a quarantine is left that somebody must look at.
local function turn(at, plan, own, paused)
  local asks = false
  for _, suffix in ipairs(entries_of(at.record, at.fields)) do
    local entry, kept = entry_read(at.record, suffix), true
    local stays = plan.mode == 'internal'
    if suffix == own and entry.state == 'quarantined' and (stays or plan.mode == 'carry') then revive(at, suffix, entry) end
    -- A spawn ends by settling alone: its entry and the sentinel go in one step.
    if suffix == own and plan.mode ~= 'carry' and not stays and entry.kind ~= 'spawn' then drop(at, suffix, entry, false); kept = false
    elseif entry.kind == 'state' then
      if plan.interrupts then entry.posted = entry.posted + 1 end
      if plan.mode == 'carry' then carry(at, suffix, entry, plan.fires)
      elseif not stays then revoke(at, suffix, entry); kept = false
      elseif plan.interrupts then entry_write(at.record, suffix, entry) end
    elseif plan.ends and paused and entry.state == 'owed' then
      redis.call('ZADD', at.effects, whole(now), at.id .. ':' .. suffix) -- the end lifts a pause; what is still owed must be seen again
    end
    asks = asks or (kept and entry.state == 'quarantined')
  end
  return asks
end

local function end_timers(at, asks, resumes)
  for _, field in ipairs(at.fields) do
    if field == 't:quarantine' and asks then
      local _, born, left, fired = string.match(redis.call('HGET', at.record, field), '^(%S+) (%S+) (%S+) (%S+)$')
      if resumes and left ~= '-' then set_timer(at.record, at.timers, at.id, 'quarantine', tonumber(left), born, fired, false) end
    elseif string.sub(field, 1, 2) == 't:' then
      local name = string.sub(field, 3)
      if not at.again[name] then redis.call('HDEL', at.record, field); redis.call('ZREM', at.timers, at.id .. ':' .. name) end
    end
  end
end
