-- SmallBank's six transactions: accounts by name, then checking and savings by the customer's number. What a balance
-- will be is computed by the application from what it has read.

-- @transaction Amalgamate(:name1, :name2)
-- @name A1
SELECT custid AS one FROM account WHERE name = :name1;
-- @name A2
SELECT custid AS two FROM account WHERE name = :name2;
-- @name C1
SELECT bal AS checking1 FROM checking WHERE custid = :one;
-- @name S1
SELECT bal AS savings1 FROM savings WHERE custid = :one;
-- @name C2
SELECT bal AS checking2 FROM checking WHERE custid = :two;
-- @let :all = :checking1 + :savings1 + :checking2
-- @let :rest = :all - :all
-- @name wC1
UPDATE checking SET bal = :rest WHERE custid = :one;
-- @name wS1
UPDATE savings SET bal = :rest WHERE custid = :one;
-- @name wC2
UPDATE checking SET bal = :all WHERE custid = :two;

-- @transaction Balance(:name)
-- @name A
SELECT custid FROM account WHERE name = :name;
-- @name C
SELECT bal FROM checking WHERE custid = :custid;
-- @name S
SELECT bal FROM savings WHERE custid = :custid;

-- @transaction DepositChecking(:name, :amount)
-- @name A
SELECT custid FROM account WHERE name = :name;
-- @name C
SELECT bal FROM checking WHERE custid = :custid;
-- @name wC
UPDATE checking SET bal = :bal + :amount WHERE custid = :custid;

-- @transaction SendPayment(:from, :to, :amount)
-- @name A1
SELECT custid AS one FROM account WHERE name = :from;
-- @name A2
SELECT custid AS two FROM account WHERE name = :to;
-- @name C1
SELECT bal AS checking1 FROM checking WHERE custid = :one;
-- @name C2
SELECT bal AS checking2 FROM checking WHERE custid = :two;
-- Nothing is written before both balances are known.
-- @after C1, C2
-- @name wC1
UPDATE checking SET bal = :checking1 - :amount WHERE custid = :one;
-- @after C1, C2
-- @name wC2
UPDATE checking SET bal = :checking2 + :amount WHERE custid = :two;

-- @transaction TransactSavings(:name, :amount)
-- @name A
SELECT custid FROM account WHERE name = :name;
-- @name S
SELECT bal FROM savings WHERE custid = :custid;
-- @name wS
UPDATE savings SET bal = :bal + :amount WHERE custid = :custid;

-- @transaction WriteCheck(:name, :amount)
-- @name A
SELECT custid FROM account WHERE name = :name;
-- @name C
SELECT bal AS checking FROM checking WHERE custid = :custid;
-- @name S
SELECT bal AS savings FROM savings WHERE custid = :custid;
-- @let :new = :checking - :amount - penalty(:checking + :savings)
-- @name wC
UPDATE checking SET bal = :new WHERE custid = :custid;
