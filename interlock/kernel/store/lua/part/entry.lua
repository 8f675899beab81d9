-- An effect's entry is a line of values in field 'e:<suffix>' of its record: first texts, where '-'
-- is none, then numbers. Their order is that of the names in read_entry; Python writes the line of
-- a new entry and reads entries in the same order (codec.py). One pattern and one format for the
-- whole line: a table of names with a loop over it made the scripts 9 % slower, a renewal 22 %.
-- The losses are stored as a negative number. Earlier versions counted up in their place, once for
-- each loss and once for each attempt that was given back uncounted, so a positive number is no
-- losses. While a worker of such a version is at work beside ours, each loss that it finds and each
-- attempt that it gives back takes one loss away: the effect is tried alone later, or gets more
-- attempts for lost ones, never fewer.
local ENTRY_PATTERN = '^([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)'
  .. ' ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)'
  .. ' ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)$'
local ENTRY_FORMAT = '%s %s %s %s %s %s %s'
  .. ' %d %d %d %d %d %d %d %d'
  .. ' %d %d %d %d %d %d %d'

-- Returns an effect's entry, or nil where the record does not owe the effect.
local function read_entry(record, suffix)
  local line = redis.call('HGET', record, 'e:' .. suffix)
  if not line then
    return nil
  end
  local name, kind, state, token, holder, countdown, reserved,
    attempts, attempts_max, losses, lease_until, kill_by, not_before, begun, no_restart,
    once, interrupts, acknowledged, polls, grace_ms, fires_exhausted, exclusive
    = string.match(line, ENTRY_PATTERN)
  return {
    name = name,
    kind = kind, -- state, transition, spawn or advance
    state = state, -- owed, leased, lapsed, quarantined or draining
    token = token,
    holder = holder,
    countdown = countdown, -- the one that a spawn or an advance belongs to
    reserved = reserved, -- 'name=amount,name=amount'
    attempts = tonumber(attempts),
    attempts_max = tonumber(attempts_max),
    losses = math.max(-tonumber(losses), 0), -- how often a sweep has found that its holder was lost
    lease_until = tonumber(lease_until),
    kill_by = tonumber(kill_by), -- the last holder's process is surely dead by then
    not_before = tonumber(not_before),
    begun = tonumber(begun), -- 1: it was claimed once
    no_restart = tonumber(no_restart), -- 1: if its holder is lost, nobody may start it again
    once = tonumber(once), -- 1: no_restart is set at its first claim
    interrupts = tonumber(interrupts), -- how many were posted to the holder
    acknowledged = tonumber(acknowledged), -- how many of them the holder has acknowledged
    polls = tonumber(polls), -- how often a sweep has polled it since it was last held
    grace_ms = tonumber(grace_ms),
    fires_exhausted = tonumber(fires_exhausted), -- 1: the sweep fires a trigger, 0: quarantine
    exclusive = tonumber(exclusive),
  }
end

-- Writes an entry.
local function write_entry(record, suffix, entry)
  local line = string.format(
    ENTRY_FORMAT,
    entry.name,
    entry.kind,
    entry.state,
    entry.token,
    entry.holder,
    entry.countdown,
    entry.reserved,
    entry.attempts,
    entry.attempts_max,
    -entry.losses,
    entry.lease_until,
    entry.kill_by,
    entry.not_before,
    entry.begun,
    entry.no_restart,
    entry.once,
    entry.interrupts,
    entry.acknowledged,
    entry.polls,
    entry.grace_ms,
    entry.fires_exhausted,
    entry.exclusive
  )
  redis.call('HSET', record, 'e:' .. suffix, line)
end

-- Returns the suffixes of a record's effects, sorted, and the names of its timers. Only the fields
-- of effects, timers, slots and residues have a colon, after one letter.
local COLON = 58 -- as string.byte returns it
local function entry_suffixes(record)
  local suffixes, timer_names = {}, {}
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.byte(field, 2) == COLON then
      local mark = string.sub(field, 1, 1)
      if mark == 'e' then
        suffixes[#suffixes + 1] = string.sub(field, 3)
      elseif mark == 't' then
        timer_names[#timer_names + 1] = string.sub(field, 3)
      end
    end
  end
  table.sort(suffixes)
  return suffixes, timer_names
end
