/** A list of more than two in the condition of an index is made into a table for each statement that stores, and looked up for each row: a
 *  twelfth of the work. The same said one by one is compared. */
export const turnsByOr = `
drop index event_turns;
create index event_turns on event (session_id, seq) where type = 'prompt' or type = 'turn.started' or type = 'usage';
`
