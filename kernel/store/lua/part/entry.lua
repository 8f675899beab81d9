-- An effect's entry: words of a fixed order in the record's hash, field 'e:<suffix>'; '-' is empty.
-- One match and one format: a word at a time, reading and writing entries was a third of a commit.
local LINE = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'
local SHAPE = '%s %s %s %s %s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s'

local function entry_read(record, suffix)
  local line = redis.call('HGET', record, 'e:' .. suffix)
  if not line then return nil end
  local name, kind, state, token, holder, attempts, most, releases, lease_until, kill_by, not_before, begun, carried, once, posted, acked,
    looks, reserved, grace, fires, exclusive, countdown = string.match(line, LINE)
  return {name = name, kind = kind, state = state, token = token ~= '-' and token or '', holder = holder ~= '-' and holder or '',
    attempts = tonumber(attempts), attempts_max = tonumber(most), releases = tonumber(releases), lease_until = tonumber(lease_until),
    kill_by = tonumber(kill_by), not_before = tonumber(not_before), begun = tonumber(begun), carried = tonumber(carried), once = tonumber(once),
    posted = tonumber(posted), acked = tonumber(acked), looks = tonumber(looks), reserved = tonumber(reserved), grace = tonumber(grace),
    fires = tonumber(fires), exclusive = tonumber(exclusive), countdown = countdown ~= '-' and countdown or ''}
end

local function filled(word) return word and word ~= '' and word or '-' end

local function entry_line(entry)
  return string.format(SHAPE, entry.name, entry.kind, entry.state, filled(entry.token), filled(entry.holder), entry.attempts, entry.attempts_max,
    entry.releases, entry.lease_until, entry.kill_by, entry.not_before, entry.begun, entry.carried, entry.once, entry.posted, entry.acked,
    entry.looks, entry.reserved, entry.grace, entry.fires or 0, entry.exclusive or 0, filled(entry.countdown))
end

local function entry_write(record, suffix, entry)
  redis.call('HSET', record, 'e:' .. suffix, entry_line(entry))
end

local function entries_of(record, fields)
  local found = {}
  for _, field in ipairs(fields or redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 'e:' then found[#found + 1] = string.sub(field, 3) end
  end
  table.sort(found)
  return found
end

-- First look at an owed entry; each fruitless one doubles the distance, so a backlog drains without a storm.
local function next_look(entry, first_ms)
  return now + math.min(first_ms * 2 ^ math.min(entry.looks, 20), 900000)
end

local function any_quarantined(record)
  for _, suffix in ipairs(entries_of(record)) do
    if entry_read(record, suffix).state == 'quarantined' then return true end
  end
  return false
end

-- Nobody need be asked about this record any more, unless its state waits for a person or another effect does.
local function unquarantine(record, waits, timers, id)
  if any_quarantined(record) then return end
  redis.call('HDEL', record, 't:quarantine')
  redis.call('ZREM', timers, id .. ':quarantine')
  if redis.call('HGET', record, 'person') ~= '1' then redis.call('ZREM', waits, id) end
end
