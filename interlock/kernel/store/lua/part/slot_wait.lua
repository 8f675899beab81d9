--@use clock entry quarantine
-- What an entry has as its holder while the effect waits for a slot. Who frees one wakes the effect
-- that has waited longest, so it is polled only because that may be lost: not before a minute.
local SLOT = '@slot'
local SLOT_POLL_MS = 60000
local SLOT_POLLS = 4 -- after which polls, each twice as long after the one before, it goes on

-- Notes that an owed effect waits for a slot. indexes = {effects, waits, timers}
local function wait_for_slot(record, indexes, id, suffix, entry)
  local effects, waits, timers = unpack(indexes)
  if entry.state == 'owed' then
    local asked = asks_person(entry)
    entry.holder = SLOT
    entry.polls = math.max(entry.polls, SLOT_POLLS)
    write_entry(record, suffix, entry)
    if asked then
      stop_asking(record, waits, timers, id)
    end
  end
  redis.call('ZADD', effects, now_ms + SLOT_POLL_MS, id .. ':' .. suffix)
end
