--@use clock entry drop
-- What becomes of one effect when its record makes a transition.
-- owner = {id, record, effects, chain, ...}: the record whose effect it is

-- Ends an effect of a state that is left. One that has a holder drains first: that holder is
-- ordered to stop, and has until kill_by.
local function revoke(owner, suffix, entry)
  if entry.state == 'leased' or entry.state == 'lapsed' then
    entry.state = 'draining'
    entry.kill_by = entry.lease_until + entry.grace_ms
    write_entry(owner.record, suffix, entry)
    redis.call('ZADD', owner.effects, entry.kill_by, owner.id .. ':' .. suffix)
  elseif entry.state ~= 'draining' then
    drop(owner, suffix, entry, entry.begun == 1)
  end
end

-- Carries an effect into the next state. One that has begun may not start again, because there it
-- would begin in the middle; so if its holder gave it back it is lapsed now. Whether its exhaustion
-- fires is up to the next state.
local function carry(owner, suffix, entry, fires_exhausted)
  if entry.state == 'draining' then
    return
  end
  entry.no_restart = entry.begun
  entry.fires_exhausted = fires_exhausted and 1 or 0
  if entry.state == 'owed' and entry.begun == 1 then
    entry.state = 'lapsed'
    redis.call('ZADD', owner.effects, now, owner.id .. ':' .. suffix)
  end
  write_entry(owner.record, suffix, entry)
end

-- Ends the quarantine of an effect whose holder reports after all, where the effect lives on.
local function revive(owner, suffix, entry)
  entry.state = 'leased'
  write_entry(owner.record, suffix, entry)
  redis.call('ZADD', owner.effects, entry.lease_until, owner.id .. ':' .. suffix)
end
