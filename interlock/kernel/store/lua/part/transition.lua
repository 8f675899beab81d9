--@use clock entry revoke timer drop quarantine metrics saved fields
-- What a transition does to the effects and timers that its record has.
-- owner = {id, record, fields, effects, timers, chain, metrics, saved}

-- Ends, keeps, carries or revokes each effect. `reported` is the entry of the effect whose outcome
-- this is, or nil. Returns what is left: whether a person must be asked about an effect (asks),
-- whether one is quarantined, and whether the quarantine of one ended (revived).
local function change_effects(owner, plan, suffixes, reported, paused)
  local internal = plan.mode == 'internal'
  local carries = plan.mode == 'carry'
  local left = {asks = false, quarantined = false, revived = false}
  local reporting = reported and plan.warrant[2]
  for _, suffix in ipairs(suffixes) do
    local entry = suffix == reporting and reported or read_entry(owner.record, suffix)
    local stays = true
    if suffix == reporting and entry.state == 'quarantined' and (internal or carries) then
      revive(owner, suffix, entry)
      left.revived = true
    end
    -- An outcome does not end a spawn. Settling does: it takes the placeholder out of the
    -- countdown in the same step.
    if suffix == reporting and not internal and not carries and entry.kind ~= 'spawn' then
      drop(owner, suffix, entry, false)
      count(owner.metrics, 'run', entry.name, plan.trigger)
      stays = false
    elseif entry.kind == 'state' then
      if plan.interrupts then
        entry.interrupts = entry.interrupts + 1
        write_entry(owner.record, suffix, entry)
      end
      if carries then
        carry(owner, suffix, entry, plan.fires_exhausted)
      elseif not internal then
        revoke(owner, suffix, entry)
        stays = false
      end
    elseif entry.name == plan.mirror and entry.state == 'owed' and not asks_person(entry) then
      -- The decision owes one as well, which shows the same record as it is then.
      drop(owner, suffix, entry, false)
      stays = false
    elseif plan.ends and paused and entry.state == 'owed' then
      -- The end lifts the pause, which had taken this effect out of the index.
      redis.call('ZADD', owner.effects, now, owner.id .. ':' .. suffix)
    end
    if not stays then
      forget_saved(owner.saved, suffix)
    end
    left.asks = left.asks or (stays and asks_person(entry))
    left.quarantined = left.quarantined or (stays and entry.state == 'quarantined')
  end
  return left
end

-- Notes whether a record waits for a person: for an answer, or about an effect that it owes.
local function note_waits(owner, plan, waits, asks_left)
  put(owner.fields, 'waits', plan.waits and '1' or '')
  if plan.waits or asks_left then
    redis.call('ZADD', waits, now, owner.id)
  else
    redis.call('ZREM', waits, owner.id)
  end
end

-- Puts a record into the state that it enters, and into the index of its records.
local function enter_state(owner, plan, version, old_state_index, new_state_index)
  put(owner.fields, 'state', plan.state)
  put(owner.fields, 'entered', version)
  put(owner.fields, 'since', now)
  redis.call('ZREM', old_state_index, owner.id)
  redis.call('ZADD', new_state_index, now, owner.id)
end

-- Ends the timers of the state that is left, but for those that the new state sets anew. The
-- reminder of a quarantine that is left goes on; the end of a paused record resumes it.
local function end_timers(owner, plan, timer_names, quarantine_left)
  local set_anew = {}
  for n = 1, #plan.timers, 3 do
    set_anew[plan.timers[n]] = true
  end
  for _, name in ipairs(timer_names) do
    if name == 'quarantine' and quarantine_left then
      local _, version, left, fired = read_timer(owner.record, name)
      if plan.ends and left ~= '-' then
        local delay_ms = tonumber(left)
        set_timer(owner.record, owner.timers, owner.id, name, delay_ms, version, fired, false)
      end
    elseif not set_anew[name] then
      redis.call('HDEL', owner.record, 't:' .. name)
      redis.call('ZREM', owner.timers, owner.id .. ':' .. name)
    end
  end
end
