/** What a session's repository has checked out, the commit that it had before the first turn, and how full the context is. Where a
 *  session that is older has turns already, what came before them was not written down. */
export const checkedOut = `
alter table session add column branch text;
alter table session add column at_commit text;
alter table session add column base_commit text;
alter table session add column context_used integer;
alter table session add column context_window integer;
update session set base_commit = 'unknown' where turns > 0;
`
