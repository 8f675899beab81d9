-- What becomes of one effect when its record moves on: it is dropped, revoked, carried or revived.
-- at = {record, effects, timers, chain, id, fields: the record's, as they were, again: timers that the row sets anew}
local function drop(at, suffix, entry, lost)
  unreserve(at.chain, entry, lost)
  redis.call('HDEL', at.record, 'e:' .. suffix)
  redis.call('ZREM', at.effects, at.id .. ':' .. suffix)
  wake_siblings(at.record, at.effects, at.id, entry)
end

local function revoke(at, suffix, entry)
  if entry.state == 'leased' or entry.state == 'lapsed' then
    entry.state, entry.kill_by = 'draining', entry.lease_until + entry.grace
    entry_write(at.record, suffix, entry)
    redis.call('ZADD', at.effects, whole(entry.kill_by), at.id .. ':' .. suffix)
  elseif entry.state ~= 'draining' then
    drop(at, suffix, entry, entry.begun == 1)
  end
end

-- What never began may still start; whether its exhaustion fires is for the state that it now belongs to.
local function carry(at, suffix, entry, fires)
  if entry.state == 'draining' then return end
  entry.carried, entry.fires = entry.begun, fires and 1 or 0
  if entry.state == 'owed' and entry.begun == 1 then
    entry.state = 'lapsed'
    redis.call('ZADD', at.effects, whole(now), at.id .. ':' .. suffix)
  end
  entry_write(at.record, suffix, entry)
end

-- A late outcome ends its own entry's quarantine also where the row lets that entry live on.
local function revive(at, suffix, entry)
  entry.state = 'leased'
  entry_write(at.record, suffix, entry)
  redis.call('ZADD', at.effects, whole(entry.lease_until), at.id .. ':' .. suffix)
end
