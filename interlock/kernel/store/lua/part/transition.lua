--@use clock entry revoke timer drop quarantine metrics saved
-- What a transition does to the effects and timers that its record has.
-- owner = {id, record, effects, timers, chain, metrics, saved, fields: of its hash before the
-- transition}

-- Ends, keeps, carries or revokes each effect. `reporting` is the effect whose outcome this is, or
-- ''. Returns whether a person must still be asked about an effect that is left, and whether a
-- quarantined one is left.
local function change_effects(owner, plan, reporting, paused)
  local internal = plan.mode == 'internal'
  local carries = plan.mode == 'carry'
  local asks_left = false
  local quarantine_left = false
  for _, suffix in ipairs(entry_suffixes(owner.record, owner.fields)) do
    local entry = read_entry(owner.record, suffix)
    local stays = true
    if suffix == reporting and entry.state == 'quarantined' and (internal or carries) then
      revive(owner, suffix, entry)
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
    elseif plan.ends and paused and entry.state == 'owed' then
      -- The end lifts the pause, which had taken this effect out of the index.
      redis.call('ZADD', owner.effects, now_ms, owner.id .. ':' .. suffix)
    end
    if not stays then
      forget_saved(owner.saved, suffix)
    end
    asks_left = asks_left or (stays and asks_person(entry))
    quarantine_left = quarantine_left or (stays and entry.state == 'quarantined')
  end
  return asks_left, quarantine_left
end

-- Notes whether a record waits for a person: for an answer, or about an effect that it owes.
local function note_waits(owner, plan, waits, asks_left)
  redis.call('HSET', owner.record, 'waits', plan.waits and '1' or '')
  if plan.waits or asks_left then
    redis.call('ZADD', waits, now_ms, owner.id)
  else
    redis.call('ZREM', waits, owner.id)
  end
end

-- Gives a record that stays in its state its new version. Where it asks another question from then
-- on, an answer has to name that version.
local function stay_in_state(owner, plan, version, waits, asks_left)
  redis.call('HSET', owner.record, 'version', version)
  if plan.asks_anew then
    redis.call('HSET', owner.record, 'entered', version)
    note_waits(owner, plan, waits, asks_left)
  end
end

-- Puts a record into the state that it enters, and into the indexes of those who look for it.
-- indexes = {of the old state, of the new state, of those who wait for a person}
local function enter_state(owner, plan, version, indexes, asks_left)
  local old_state_index, new_state_index, waits = unpack(indexes)
  redis.call(
    'HSET', owner.record, 'version', version, 'state', plan.state, 'entered', version,
    'since', now_ms
  )
  redis.call('ZREM', old_state_index, owner.id)
  redis.call('ZADD', new_state_index, now_ms, owner.id)
  note_waits(owner, plan, waits, asks_left)
end

-- Ends the timers of the state that is left, but for those that the new state sets anew. The
-- reminder of a quarantine that is left goes on; the end of a paused record resumes it.
local function end_timers(owner, plan, quarantine_left)
  local set_anew = {}
  for _, timer in ipairs(plan.timers) do
    set_anew[timer.name] = true
  end
  for _, field in ipairs(owner.fields) do
    local name = string.match(field, '^t:(.*)$')
    if name == 'quarantine' and quarantine_left then
      local _, version, left, fired = read_timer(owner.record, name)
      if plan.ends and left ~= '-' then
        local delay_ms = tonumber(left)
        set_timer(owner.record, owner.timers, owner.id, name, delay_ms, version, fired, false)
      end
    elseif name and not set_anew[name] then
      redis.call('HDEL', owner.record, field)
      redis.call('ZREM', owner.timers, owner.id .. ':' .. name)
    end
  end
end
