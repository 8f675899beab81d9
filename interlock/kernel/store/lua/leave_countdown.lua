--@use countdown
-- Takes a member that has ended, or was never created, out of a countdown of any record.
-- KEYS     record, effects, members, tally, [queue of the advance]
-- ARGV     plan: {parent, member, outcome}, [message of the advance]
-- Returns  {suffix of the advance, or ''}
local record = KEYS[1]
local effects = KEYS[2]
local members = KEYS[3]
local tally = KEYS[4]
local queue = KEYS[5]
local plan = cjson.decode(ARGV[1])
local message = ARGV[2]

local keys = {record, members, tally}
return {leave_countdown(plan.parent, keys, effects, plan.member, plan.outcome, queue, message)}
