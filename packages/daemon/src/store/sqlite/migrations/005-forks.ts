/** Where a fork's conversation ends that it was given, until it goes on; and who works in a folder. */
export const forks = `
alter table session add column forget_after text not null default '[]';
create index session_workspace on session (workspace);
`
