--@use countdown
-- Takes a member that has ended, or was never created, out of a countdown of any record.
-- KEYS     record, effects, members, tally, message_queues...
-- ARGV     parent, member, outcome, messages*...
-- Returns  {suffix of the advance, or ''}
-- `messages` has that of the advance, if the store is the broker.
local keys, queue, message = {record, members, tally}, message_queues[1], plan.messages[1]
return {leave_countdown(plan.parent, keys, effects, plan.member, plan.outcome, queue, message)}
