-- An effect's entry: words of a fixed order in the record's hash, field 'e:<suffix>'; '-' is empty.
local WORDS = {'name', 'kind', 'state', 'token', 'holder', 'attempts', 'attempts_max', 'releases', 'lease_until', 'kill_by',
  'not_before', 'begun', 'carried', 'once', 'posted', 'acked', 'looks', 'reserved', 'grace', 'fires', 'countdown'}
local COUNTS = {attempts = 1, attempts_max = 1, releases = 1, lease_until = 1, kill_by = 1, not_before = 1, begun = 1, carried = 1,
  once = 1, posted = 1, acked = 1, looks = 1, reserved = 1, grace = 1, fires = 1}

local function entry_read(record, suffix)
  local line = redis.call('HGET', record, 'e:' .. suffix)
  if not line then return nil end
  local entry, at = {}, 0
  for word in string.gmatch(line, '%S+') do
    at = at + 1
    local name = WORDS[at]
    if COUNTS[name] then entry[name] = tonumber(word) else entry[name] = word ~= '-' and word or '' end
  end
  return entry
end

local function entry_write(record, suffix, entry)
  local line = {}
  for at, name in ipairs(WORDS) do
    local value = entry[name]
    if COUNTS[name] then line[at] = string.format('%.0f', value or 0) else line[at] = (value and value ~= '') and value or '-' end
  end
  redis.call('HSET', record, 'e:' .. suffix, table.concat(line, ' '))
end

local function entries_of(record)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
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
