// pg-boss, as it starts for the first time in a database. DATABASE_URL says where.
import { PgBoss } from "pg-boss";

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on("error", (error) => console.error(error));
await boss.start();
