fn f() {} // finds tree
