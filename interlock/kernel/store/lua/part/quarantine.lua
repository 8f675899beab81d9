--@use entry
-- What an entry has as its holder while the effect waits for a person to remove what is in its way.
local PERSON = '@person'

-- Whether a person is asked about an effect: it was given up, or it waits for a person.
local function asks_person(entry)
  return entry.state == 'quarantined' or (entry.state == 'owed' and entry.holder == PERSON)
end

-- Call this after an effect that asked a person has changed: it was claimed, given back, retried or
-- ended. While another effect of the record is quarantined, it changes nothing. Else it ends the
-- reminder of the quarantine, and takes the record out of `waits`, unless an effect or the state of
-- the record still asks a person. It reads every entry, so a script that runs for each effect calls
-- it only where that effect asked a person.
local function stop_asking(record, waits, timers, id)
  local asks = redis.call('HGET', record, 'waits') == '1'
  for _, suffix in ipairs(entry_suffixes(record)) do
    local entry = read_entry(record, suffix)
    if entry.state == 'quarantined' then
      return
    end
    asks = asks or asks_person(entry)
  end
  redis.call('HDEL', record, 't:quarantine')
  redis.call('ZREM', timers, id .. ':quarantine')
  if not asks then
    redis.call('ZREM', waits, id)
  end
end
